"""The paper's figures, a module each."""
