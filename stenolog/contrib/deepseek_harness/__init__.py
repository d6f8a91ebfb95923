"""Sessions of deepseek-harness (dsh), in every version of its format that is known."""
