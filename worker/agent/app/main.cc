#include "worker/agent/app/agent_main.h"

int main(int argc, char** argv) { return ringmaster::agent::Main(argc, argv); }
