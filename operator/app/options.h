#pragma once

// The operator's flags: Options before validation, and Config after it. Used only by
// main.cc.

#include <chrono>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "operator/kube/cluster_config.h"
#include "operator/runtime/leader_elector.h"

namespace ringmaster {

struct Options {
  std::string kubeconfig;
  std::string ns;
  std::string watch_namespace;
  std::vector<std::string> exclude_namespaces;
  std::string presets;
  std::string tools_image;
  std::string worker_image;
  std::vector<std::string> own_images;
  bool job_network_policies = true;
  std::string identity;
  int workers = 256;
  bool leader_elect = true;
  std::string lease_name = "ringmaster-operator";
  std::string lease_duration = "4s";
  std::string renew_deadline = "3s";
  std::string retry_period = "1s";
  std::string admin_address;  // empty: all addresses
  int admin_port = 8080;
  std::string metrics_address;  // empty: all addresses
  int metrics_port = 8443;
  bool metrics_authorization = true;
  std::string metrics_certificates;
  std::string log_level = "info";
  std::string log_format = "text";
  bool print_config = false;
  bool release_jobs = false;
};

// The values of the command line. If `done` is set, the process exits immediately with `exit_code`
// (help, version, or an error that has been printed).
struct CommandLine {
  Options options;
  bool done = false;
  int exit_code = 0;
};
CommandLine ParseCommandLine(int argc, char** argv);

struct Config {
  kube::ClusterConfig cluster;
  std::string ns;               // the operator's namespace
  std::string watch_namespace;  // empty: all namespaces
  std::vector<std::string> exclude_namespaces;
  std::string presets;       // JSON that job/admission/profile.h decodes
  std::string tools_image;   // image of the tools (job/manifests/injection.h); empty: no injection
  std::string worker_image;  // image of jobs that name no image; empty: they are rejected
  std::vector<std::string> own_images;
  bool job_network_policies = true;  // whether jobs get NetworkPolicies
  std::string identity;  // Pod or host name and a random part, different for every process
  std::string instance;  // Pod or host name
  int workers = 256;
  bool leader_elect = true;
  std::string lease_name;
  std::chrono::milliseconds lease_duration{};
  std::chrono::milliseconds renew_deadline{};
  std::chrono::milliseconds retry_period{};
  std::string admin_address;    // "host:port", or ":port" for all addresses
  std::string metrics_address;  // "host:port", or ":port" for all addresses
  bool metrics_authorization = true;
  std::string metrics_certificates;  // folder with tls.crt and tls.key; empty: self-signed
  std::string log_level;
  LogFormat log_format = LogFormat::kText;

  // The name of this installation, which is the same for all operators that share a Lease.
  std::string Installation() const { return ns + "/" + lease_name; }

  // Returns this process's identity and timings for the Lease.
  runtime::LeaderElectorOptions Election() const;

  // Returns one "name: value" line for each option, without tokens and keys.
  std::string Text() const;
};

// Reads the kubeconfig or the service account. Returns kInvalid with the flag and its correction.
Result<Config> Finalize(const Options& options, const kube::Environment& environment);

// Parses durations such as "900ms", "4s", "1.5m" or "2h". Returns kInvalid for any other text.
Result<std::chrono::milliseconds> ParseDuration(const std::string& text);

}  // namespace ringmaster
