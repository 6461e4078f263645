"""The paper's metrics, and the field's."""
