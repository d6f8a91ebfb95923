"""Files of stenolog itself: exports, databases and events written by hand."""
