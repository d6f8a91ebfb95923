"""The recorder of a tap: exchanges with models' providers to entries of conversations."""
