#include "worker/trainer/process_age.h"

#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

namespace ringmaster::trainer {

double ProcessAgeMillis() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 22; ++i) fields >> field;  // proc(5): the start time is field 22
  double start_ticks = 0;
  if (!(fields >> start_ticks)) return 0;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double now_millis =
      static_cast<double>(now.tv_sec) * 1000 + static_cast<double>(now.tv_nsec) / 1e6;
  return now_millis - start_ticks * 1000 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace ringmaster::trainer
