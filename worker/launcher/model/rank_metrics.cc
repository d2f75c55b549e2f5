#include "worker/launcher/model/rank_metrics.h"

#include <functional>
#include <iomanip>
#include <limits>
#include <sstream>
#include <utility>

namespace ringmaster::launcher {
namespace {

using Labels = std::vector<std::pair<const char*, std::string>>;

std::string Escaped(const std::string& value) {
  std::string escaped;
  for (const char one : value) {
    if (one == '\\' || one == '"') escaped += '\\';
    escaped += one == '\n' ? "\\n" : std::string(1, one);
  }
  return escaped;
}

void Begin(std::ostream& text, const char* name, const char* help) {
  text << "# HELP " << name << ' ' << help << "\n# TYPE " << name << " gauge\n";
}

void Add(std::ostream& text, const char* name, const Labels& labels, double value) {
  text << name;
  char before = '{';
  for (const auto& [label, content] : labels) {
    text << std::exchange(before, ',') << label << "=\"" << Escaped(content) << '"';
  }
  text << "} " << value << '\n';
}

}  // namespace

std::string MetricsText(const JobTimes& times) {
  std::ostringstream text;
  text << std::setprecision(std::numeric_limits<double>::digits10);
  const auto of_job = [&](const char* name, const char* help, double value) {
    Begin(text, name, help);
    Add(text, name, {{"job", times.job}}, value);
  };
  const auto of_ranks = [&](const char* name, const char* help,
                            const std::function<double(const RankTimes&)>& value) {
    Begin(text, name, help);
    for (const RankTimes& rank : times.ranks) {
      Add(text, name,
          {{"job", times.job},
           {"worker", rank.pod},
           {"node", rank.node},
           {"rank", std::to_string(rank.rank)}},
          value(rank));
    }
  };
  of_job("ringmaster_epoch", "Epoch number of the current world, within its launcher's term",
         static_cast<double>(times.epoch));
  of_job("ringmaster_world_size", "Number of ranks in the current world",
         static_cast<double>(times.ranks.size()));
  if (times.median_step_seconds) {
    of_job("ringmaster_step_seconds", "Median duration of a step", *times.median_step_seconds);
  }
  of_ranks("ringmaster_rank_step", "Steps applied by the rank",
           [](const RankTimes& rank) { return static_cast<double>(rank.step); });
  of_ranks("ringmaster_rank_step_seconds", "Duration of the rank's latest step",
           [](const RankTimes& rank) { return rank.step_seconds; });
  of_ranks(
      "ringmaster_rank_own_seconds",
      "Duration of the rank's own part of a step, excluding time spent waiting for other ranks",
      [](const RankTimes& rank) { return rank.own_seconds; });
  of_ranks("ringmaster_rank_straggler", "1 if the rank is much slower than its peers",
           [](const RankTimes& rank) { return rank.straggler ? 1.0 : 0.0; });
  return std::move(text).str();
}

}  // namespace ringmaster::launcher
