#include "worker/launcher/model/coordinator_options.h"

#include <algorithm>
#include <utility>

namespace ringmaster::launcher {

CoordinatorOptions OptionsFrom(const Config& config, std::string agent_token) {
  CoordinatorOptions options;
  options.term = config.term;
  options.job_uid = config.job_uid;
  options.agent_token = std::move(agent_token);
  options.slots = config.spec.slots_per_worker;
  options.ranks_per_process = std::max(1, config.spec.ranks_per_process);
  options.elastic = config.spec.InPlace();
  options.asks_for_mpirun = config.spec.AsksForMpirun();
  options.allowed_sizes = config.spec.allowed_sizes;
  options.launch_agent = config.spec.launch_agent;
  options.heartbeat = config.heartbeat;
  options.lost_after = config.lost_after;
  options.stall_floor = config.stall_floor;
  options.partial_after = config.start_wait;
  // Keep the time for reports that follows the grace period.
  options.stop_within += config.stop_grace - options.stop_grace;
  options.stop_grace = config.stop_grace;
  options.restart_limit = config.restart_limit;
  options.restart_window = config.restart_window;
  options.crash_limit = config.crash_limit;
  options.exit_codes = config.exit_codes;
  // Do not mistake agents for silent if this launcher is late.
  options.late_tick = config.heartbeat + std::min<std::chrono::milliseconds>(
                                             config.lost_after / 2, std::chrono::milliseconds(400));
  return options;
}

}  // namespace ringmaster::launcher
