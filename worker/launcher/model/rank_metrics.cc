#include "worker/launcher/model/rank_metrics.h"

#include <functional>
#include <utility>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace ringmaster::launcher {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;

prometheus::MetricFamily Family(const char* name, const char* help) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = prometheus::MetricType::Gauge;
  return family;
}

void Add(prometheus::MetricFamily& family, Labels labels, double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  family.metric.push_back(std::move(metric));
}

}  // namespace

std::string MetricsText(const JobTimes& times) {
  std::vector<prometheus::MetricFamily> families;
  const auto of_job = [&](const char* name, const char* help, double value) {
    families.push_back(Family(name, help));
    Add(families.back(), {{"job", times.job}}, value);
  };
  const auto of_ranks = [&](const char* name, const char* help,
                            const std::function<double(const RankTimes&)>& value) {
    families.push_back(Family(name, help));
    for (const RankTimes& rank : times.ranks) {
      Add(families.back(),
          {{"job", times.job},
           {"worker", rank.pod},
           {"node", rank.node},
           {"rank", std::to_string(rank.rank)}},
          value(rank));
    }
  };
  of_job("ringmaster_epoch", "Number of the world of ranks under this launcher",
         static_cast<double>(times.epoch));
  of_job("ringmaster_world_size", "Ranks of that world", static_cast<double>(times.ranks.size()));
  if (times.median_step_seconds) {
    of_job("ringmaster_step_seconds", "Median time of a step", *times.median_step_seconds);
  }
  of_ranks("ringmaster_rank_step", "Steps that the rank has applied",
           [](const RankTimes& rank) { return static_cast<double>(rank.step); });
  of_ranks("ringmaster_rank_step_seconds", "Time of the rank's newest step",
           [](const RankTimes& rank) { return rank.step_seconds; });
  of_ranks("ringmaster_rank_own_seconds",
           "Time of the rank's own part of a step, without waiting for other ranks",
           [](const RankTimes& rank) { return rank.own_seconds; });
  of_ranks("ringmaster_rank_straggler", "1 while the rank is much slower than its peers",
           [](const RankTimes& rank) { return rank.straggler ? 1.0 : 0.0; });
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace ringmaster::launcher
