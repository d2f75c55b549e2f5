#include "worker/launcher/app/launcher_main.h"

int main(int argc, char** argv) { return ringmaster::launcher::Main(argc, argv); }
