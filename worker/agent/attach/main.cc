#include "worker/agent/attach/attach_main.h"

int main(int argc, char** argv) { return ringmaster::agent::AttachMain(argc, argv); }
