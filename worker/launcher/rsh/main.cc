#include "worker/launcher/rsh/rsh_main.h"

int main(int argc, char** argv) { return ringmaster::launcher::RshMain(argc, argv); }
