// The library that missing_library.cc is linked with.
int Missing();
int Missing() { return 0; }
