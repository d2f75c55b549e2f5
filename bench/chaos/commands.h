#pragma once

// The subcommands of ringmaster-bench that strike a job of real processes. Only where the tests are
// built: they stand on their hosts and jobs (tests/runtime).

#include "worker/bench/command.h"

namespace ringmaster::chaos {

bench::Command AddChaos(CLI::App& app);
bench::Command AddScale(CLI::App& app);

}  // namespace ringmaster::chaos
