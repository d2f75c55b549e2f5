#pragma once

// The constant configuration of Coordinator: the identity of the job, and limits. Launcher fills it
// from Config with OptionsFrom(); tests override single fields.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/launcher/model/config.h"
#include "worker/launcher/model/restart_limit.h"

namespace ringmaster::launcher {

struct CoordinatorOptions {
  int64_t term = 0;
  std::string job_uid;
  std::string agent_token;
  int slots = 1;                   // number of slots per worker
  int ranks_per_process = 1;       // number of ranks that a process starts by itself (LaunchSpec)
  bool elastic = true;             // from LaunchSpec::InPlace
  bool asks_for_mpirun = false;    // from LaunchSpec::AsksForMpirun
  std::vector<int> allowed_sizes;  // from LaunchSpec
  control::LaunchAgent launch_agent = control::LaunchAgent::kAuto;

  std::chrono::milliseconds heartbeat{100};      // the shortest interval (see Job::Heartbeat)
  std::chrono::milliseconds lost_after{2000};    // a member that is silent for longer is lost
  std::chrono::milliseconds redial_within{150};  // time for an agent to reconnect
  std::chrono::milliseconds late_tick{500};  // if ticks are further apart, this launcher was late
  std::chrono::milliseconds partial_after{30'000};  // time after which minReplicas workers suffice
  std::chrono::milliseconds attach_within{60'000};  // maximum time without a newly attached process
  int start_attempts = 3;  // consecutive failed starts of mpirun before the job fails
  std::chrono::milliseconds stop_grace{1000};   // time from SIGTERM to SIGKILL of ranks
  std::chrono::milliseconds stop_within{5000};  // time for ranks to report and mpirun to end
  std::chrono::milliseconds settle{300};  // how long to wait for other reports of the same failure
  std::chrono::milliseconds peer_lost_settle{
      1500};  // the same, while only ranks that lost a peer have reported
  std::chrono::milliseconds fault_settle{
      5000};  // how long to wait for faults of other workers after the first preflight fault
  std::chrono::milliseconds release_within{10'000};  // time for released ranks to end

  // The following options apply only to elastic jobs.
  std::chrono::milliseconds join_window{1000};   // how long a joiner waits for other joiners
  std::chrono::milliseconds adopt_within{5000};  // time for members of a running world to report
  // Used instead of adopt_within once most Pods of the world have reported. By then, the other
  // agents should have noticed the last launcher's silence and found this launcher.
  std::chrono::milliseconds adopt_rest_within{2000};
  std::chrono::milliseconds ask_again{1000};     // wait before asking another agent for members
  std::chrono::milliseconds broken_settle{500};  // added to lost_after: detect lost workers first
  int same_world_attempts = 3;                   // consecutive worlds with the same members
  std::chrono::milliseconds load_again_within{
      300'000};  // first start: time for a slot to load again after its process has ended
  std::chrono::milliseconds stall_floor{2000};  // see stall_watch.h; 0: disabled
  std::chrono::milliseconds stall_end_within{
      2000};               // time for the agent to record the stack of a hung rank and end it
  int restart_limit = 10;  // maximum number of exits of ranks, except kills, in a window
  std::chrono::milliseconds restart_window{3'600'000};
  ExitCodeRules exit_codes;
  int crash_limit = 5;  // see crash_limit.h
};

CoordinatorOptions OptionsFrom(const Config& config, std::string agent_token);

}  // namespace ringmaster::launcher
