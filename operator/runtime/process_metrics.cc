#include "operator/runtime/process_metrics.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include <prometheus/metric_family.h>

namespace ringmaster::runtime {
namespace {

// Numbers of fields in /proc/self/stat, as in proc(5).
constexpr int kFirstAfterName = 3;
constexpr int kUserTicks = 14;
constexpr int kSystemTicks = 15;
constexpr int kVirtualBytes = 23;
constexpr int kResidentPages = 24;

std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');  // the name may contain spaces
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

double Field(const std::vector<std::string>& fields, int number) {
  return std::stod(fields.at(static_cast<std::size_t>(number - kFirstAfterName)));
}

void Add(std::vector<prometheus::MetricFamily>& families, const char* name, const char* help,
         double value, prometheus::MetricType type = prometheus::MetricType::Gauge) {
  prometheus::MetricFamily& family = families.emplace_back();
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  if (type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

}  // namespace

void ProcessMetrics::Collect(std::vector<prometheus::MetricFamily>& families) const {
  const std::vector<std::string> stat = StatFields();
  if (stat.size() > kResidentPages - kFirstAfterName) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    Add(families, "process_cpu_seconds_total", "CPU time of the process",
        (Field(stat, kUserTicks) + Field(stat, kSystemTicks)) / ticks,
        prometheus::MetricType::Counter);
    Add(families, "process_virtual_memory_bytes", "Virtual memory of the process",
        Field(stat, kVirtualBytes));
    Add(families, "process_resident_memory_bytes", "Resident memory of the process",
        Field(stat, kResidentPages) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  }
  Add(families, "process_start_time_seconds",
      "Start time of the process's program, in seconds since the epoch",
      std::chrono::duration<double>(started_.time_since_epoch()).count());
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (!error) {
    Add(families, "process_open_fds", "Open file descriptors",
        static_cast<double>(std::distance(begin(files), end(files))));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    Add(families, "process_max_fds", "Maximum number of open file descriptors",
        static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace ringmaster::runtime
