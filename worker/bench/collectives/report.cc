#include "worker/bench/collectives/report.h"

#include <array>
#include <cstdio>

namespace ringmaster::bench {
namespace {

template <typename... Values>
std::string Formatted(const char* format, Values... values) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string Wrong(const Timing& timing) {
  return timing.wrong < 0 ? "N/A" : std::to_string(timing.wrong);
}

std::string Columns(const Timing& timing) {
  return Formatted("  %10.2f  %6.2f  %6.2f  %6s", timing.micros, timing.algorithm, timing.bus,
                   Wrong(timing).c_str());
}

const char* OpOf(const Row& row, const Sweepings& sweep) {
  return Reduces(sweep.collective) ? NameOf(row.op) : "none";
}

int RootOf(const Sweepings& sweep) { return HasRoot(sweep.collective) ? sweep.root : -1; }

nlohmann::ordered_json JsonOf(const Timing& timing) {
  nlohmann::ordered_json json{{"time_us", timing.micros},
                              {"algbw_gb_s", timing.algorithm},
                              {"busbw_gb_s", timing.bus},
                              {"wrong", nullptr}};
  if (timing.wrong >= 0) json["wrong"] = timing.wrong;
  return json;
}

}  // namespace

Totals TotalsOf(const std::vector<Row>& rows) {
  Totals totals;
  for (const Row& row : rows) {
    for (const Timing& timing : {row.out_of_place, row.in_place}) {
      if (timing.wrong > 0) totals.wrong += timing.wrong;
      totals.average_bus += timing.bus / static_cast<double>(2 * rows.size());
    }
  }
  return totals;
}

std::string Header(const Sweepings& sweep, const std::string& backend, int ranks) {
  const std::string what = Formatted(
      "# %s over %s: nRanks %d minBytes %lld maxBytes %lld warmup iters: %d iters: %d "
      "agg iters: %d validation: %d\n#\n",
      NameOf(sweep.collective), backend.c_str(), ranks, static_cast<long long>(sweep.sizes.front()),
      static_cast<long long>(sweep.sizes.back()), sweep.warm_up, sweep.iterations, sweep.aggregated,
      sweep.check ? 1 : 0);
  return what +
         Formatted("# %12s  %12s  %8s  %6s  %5s  %34s  %34s\n", "", "", "", "", "",
                   "out-of-place           ", "in-place             ") +
         Formatted("# %12s  %12s  %8s  %6s  %5s  %10s  %6s  %6s  %6s  %10s  %6s  %6s  %6s\n",
                   "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
                   "time", "algbw", "busbw", "#wrong") +
         Formatted("# %12s  %12s  %8s  %6s  %5s  %10s  %6s  %6s  %6s  %10s  %6s  %6s\n", "(B)",
                   "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
                   "(GB/s)");
}

std::string LineOf(const Row& row, const Sweepings& sweep) {
  return Formatted("  %12lld  %12zu  %8s  %6s  %5d", static_cast<long long>(row.bytes), row.count,
                   NameOf(row.type), OpOf(row, sweep), RootOf(sweep)) +
         Columns(row.out_of_place) + Columns(row.in_place) + "\n";
}

std::string Trailer(const Totals& totals) {
  return Formatted("# Out of bounds values : %lld %s\n# Avg bus bandwidth    : %.4f \n#\n",
                   static_cast<long long>(totals.wrong), totals.wrong == 0 ? "OK" : "FAILED",
                   totals.average_bus);
}

nlohmann::ordered_json JsonOf(const std::vector<Row>& rows, const Sweepings& sweep,
                              const std::string& backend, int ranks) {
  nlohmann::ordered_json json{{"operation", NameOf(sweep.collective)},
                              {"backend", backend},
                              {"ranks", ranks},
                              {"iterations", sweep.iterations},
                              {"warm_up", sweep.warm_up},
                              {"aggregated", sweep.aggregated},
                              {"blocking", static_cast<int>(sweep.blocking)},
                              {"average", static_cast<int>(sweep.average)},
                              {"rows", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) {
    json["rows"].push_back({{"size", row.bytes},
                            {"count", row.count},
                            {"type", NameOf(row.type)},
                            {"redop", OpOf(row, sweep)},
                            {"root", RootOf(sweep)},
                            {"out_of_place", JsonOf(row.out_of_place)},
                            {"in_place", JsonOf(row.in_place)}});
  }
  const Totals totals = TotalsOf(rows);
  json["out_of_bounds_values"] = totals.wrong;
  json["average_bus_bandwidth_gb_s"] = totals.average_bus;
  return json;
}

}  // namespace ringmaster::bench
