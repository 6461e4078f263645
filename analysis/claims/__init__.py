"""The paper's findings as data, and which of them survive a test: docs/claims.md."""
