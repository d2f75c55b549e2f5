// A rank that reports its position and sleeps (rank_processes_test.cc).

#include <cstdlib>
#include <iostream>
#include <unistd.h>

#include "common/control/pod_contract.h"
#include "worker/trainer/telemetry/position.h"

int main() {
  ringmaster::trainer::Position position;
  const char* page = std::getenv(ringmaster::control::kEnvPositionPage);
  if (page == nullptr || !position.Open(page).ok()) return 1;
  std::cout << "sleeping" << std::endl;
  while (true) pause();
}
