// A program that cannot start: no loader finds its shared library.
int Missing();
int main() { return Missing(); }
