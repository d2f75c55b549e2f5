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
  int slots = 1;                   // per worker
  int ranks_per_process = 1;       // that a program of ours starts by itself (LaunchSpec)
  bool elastic = true;             // LaunchSpec::InPlace
  bool asks_for_mpirun = false;    // LaunchSpec::AsksForMpirun
  std::vector<int> allowed_sizes;  // LaunchSpec
  control::LaunchAgent launch_agent = control::LaunchAgent::kAuto;

  std::chrono::milliseconds heartbeat{100};      // with few workers (Job::Heartbeat)
  std::chrono::milliseconds lost_after{2000};    // silence of a member
  std::chrono::milliseconds redial_within{150};  // after its connection broke
  std::chrono::milliseconds late_tick{500};  // our own delay, after which old times do not count
  std::chrono::milliseconds partial_after{30'000};  // then minReplicas are enough
  std::chrono::milliseconds attach_within{60'000};  // no process attached for so long
  int start_attempts = 3;  // of mpirun in a row, before its failure is the job's
  std::chrono::milliseconds stop_grace{1000};   // SIGTERM → SIGKILL of ranks
  std::chrono::milliseconds stop_within{5000};  // for the reports of stopped ranks and mpirun's end
  std::chrono::milliseconds settle{300};  // after a failure: what else arrives about the same event
  std::chrono::milliseconds peer_lost_settle{
      1500};  // the same when only victims have reported so far
  std::chrono::milliseconds fault_settle{
      5000};  // after the first preflight fault: others may still report theirs
  std::chrono::milliseconds release_within{10'000};  // released ranks end

  // Elastic jobs alone.
  std::chrono::milliseconds join_window{1000};   // a joiner waits so long for the others wanted
  std::chrono::milliseconds adopt_within{5000};  // for the members of a world that runs already
  // The same once most of its Pods have reported: they noticed the last launcher's silence, and
  // found this one, when the others should have.
  std::chrono::milliseconds adopt_rest_within{2000};
  std::chrono::milliseconds ask_again{1000};     // for the members of a world; somebody else
  std::chrono::milliseconds broken_settle{500};  // beyond lost_after, for the cause to be seen
  int same_world_attempts = 3;                   // in a row, when ranks cannot reach each other
  std::chrono::milliseconds load_again_within{
      300'000};  // of the first start: a rank whose slot's process ended loads again
  std::chrono::milliseconds stall_floor{2000};  // stall_watch.h; 0: disabled
  std::chrono::milliseconds stall_end_within{
      2000};               // a rank that hangs has its stack noted and ends
  int restart_limit = 10;  // ranks that end by themselves, not by a signal
  std::chrono::milliseconds restart_window{3'600'000};
  ExitCodeRules exit_codes;
  int crash_limit = 5;  // crash_limit.h
};

CoordinatorOptions OptionsFrom(const Config& config, std::string agent_token);

}  // namespace ringmaster::launcher
