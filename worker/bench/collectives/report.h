#pragma once

// Formats measurements as the table of nccl-tests, for users and scripts, and as JSON.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "worker/bench/collectives/measurement.h"

namespace ringmaster::bench {

struct Totals {
  int64_t wrong = 0;       // number of wrong elements, over all rows
  double average_bus = 0;  // mean bus bandwidth in GB/s, over all rows and both forms
};
Totals TotalsOf(const std::vector<Row>& rows);

// Return the lines above the first row and below the last row.
std::string Header(const Sweepings& sweep, const std::string& backend, int ranks);
std::string LineOf(const Row& row, const Sweepings& sweep);
std::string Trailer(const Totals& totals);

nlohmann::ordered_json JsonOf(const std::vector<Row>& rows, const Sweepings& sweep,
                              const std::string& backend, int ranks);

}  // namespace ringmaster::bench
