#pragma once

// A benchmark result, called a figure, and its JSON line (bench/README.md). Header-only and
// independent of the trainer, because the operator's figures are built without it.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace ringmaster::bench {

// Returns the value below which the fraction `share` (0 to 1) of the values lies; 0 without values.
inline double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const double index = share * static_cast<double>(values.size() - 1);
  const auto found = values.begin() + static_cast<std::ptrdiff_t>(index + 0.5);
  std::nth_element(values.begin(), found, values.end());
  return *found;
}

inline double Median(std::vector<double> values) { return Percentile(std::move(values), 0.5); }

struct FigureLine {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> reference{};  // value to compare with, from the same run
  std::string reference_is{};         // meaning of `reference`; empty: the unit explains it
  std::string goal;
  bool holds = false;
};

inline nlohmann::ordered_json JsonOf(const FigureLine& figure, const nlohmann::ordered_json& more) {
  nlohmann::ordered_json json{{"figure", figure.name},
                              {"value", figure.value},
                              {"unit", figure.unit},
                              {"reference", nullptr}};
  if (figure.reference) json["reference"] = *figure.reference;
  if (!figure.reference_is.empty()) json["reference_is"] = figure.reference_is;
  json["goal"] = figure.goal;
  json["holds"] = figure.holds;
  json.update(more);
  return json;
}

// Prints the figure as the last line of the output.
inline void PrintFigure(const FigureLine& figure, const nlohmann::ordered_json& more) {
  std::printf("%s\n", JsonOf(figure, more).dump().c_str());
  std::fflush(stdout);
}

}  // namespace ringmaster::bench
