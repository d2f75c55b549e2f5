// A program that cannot start, because the loader does not find its shared library.
int Missing();
int main() { return Missing(); }
