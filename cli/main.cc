#include "cli/app.h"

int main(int argc, char** argv) { return ringmaster::cli::Main(argc, argv); }
