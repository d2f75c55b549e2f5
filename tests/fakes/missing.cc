// The library with which missing_library.cc is linked.
int Missing();
int Missing() { return 0; }
