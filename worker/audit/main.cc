#include "worker/audit/audit_main.h"

int main(int argc, char** argv) { return ringmaster::audit::Main(argc, argv); }
