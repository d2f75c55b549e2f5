#include "operator/app/options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <random>
#include <sstream>
#include <unistd.h>
#include <utility>

#include <CLI/CLI.hpp>

#include "common/command_line/parse_arguments.h"
#include "operator/runtime/leader_elector.h"

namespace ringmaster {
namespace {

using std::chrono::milliseconds;

Error Invalid(const std::string& flag, const std::string& message) {
  return {ErrorKind::kInvalid, flag + ": " + message};
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "ringmaster-operator";
}

std::string RandomHex() {
  std::random_device random;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", random(), random());
  return text;
}

std::string FirstOf(const std::string& a, const std::string& b, const std::string& c) {
  if (!a.empty()) return a;
  return b.empty() ? c : b;
}

Result<void> ReadDurations(const Options& options, Config& config) {
  const std::pair<const char*, std::pair<const std::string&, milliseconds&>> flags[] = {
      {"--lease-duration", {options.lease_duration, config.lease_duration}},
      {"--renew-deadline", {options.renew_deadline, config.renew_deadline}},
      {"--retry-period", {options.retry_period, config.retry_period}}};
  for (const auto& [flag, value] : flags) {
    const Result<milliseconds> parsed = ParseDuration(value.first);
    if (!parsed.ok()) return Invalid(flag, parsed.error().message);
    value.second = *parsed;
  }
  runtime::LeaderElectorOptions election;
  election.lease_duration = config.lease_duration;
  election.renew_deadline = config.renew_deadline;
  election.retry_period = config.retry_period;
  return runtime::Validate(election);
}

// Returns "host:port" for an address or host name, with an IPv6 address in brackets; ":port" if
// `address` is empty. A port in `address` overrides `port_flag`.
Result<std::string> WithPort(const std::string& address, int port, const char* port_flag) {
  const bool brackets = address.starts_with('[');
  const bool ipv6 = !brackets && std::ranges::count(address, ':') > 1;
  const bool has_port =
      !ipv6 && address.find(':', brackets ? address.find(']') : 0) != address.npos;
  if (has_port) return address;
  if (port < 1 || port > 65535) return Invalid(port_flag, "must be between 1 and 65535");
  return (ipv6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

void AddFlags(CLI::App& app, Options& options) {
  app.add_option(
      "--kubeconfig", options.kubeconfig,
      "kubeconfig file; default: $KUBECONFIG, else the Pod's service account, else ~/.kube/config");
  app.add_option(
      "--namespace", options.ns,
      "namespace of the operator, for its Lease and keyring; default: $POD_NAMESPACE, else "
      "that of the cluster access");
  app.add_option("--watch-namespace", options.watch_namespace,
                 "manage only the TrainingJobs in this namespace");
  app.add_option("--exclude-namespaces", options.exclude_namespaces,
                 "ignore the TrainingJobs in these namespaces, separated by commas")
      ->delimiter(',');
  app.add_option("--presets", options.presets,
                 "built-in TrainingProfiles, as JSON: {NAME: SPEC}; an object of the same name in "
                 "the operator's namespace overrides one");
  app.add_option("--tools-image", options.tools_image,
                 "image of the init container that adds Ringmaster's programs to Pods whose image "
                 "lacks them; default: no init container");
  app.add_option("--worker-image", options.worker_image,
                 "image of TrainingJobs that do not name one; default: such jobs are refused");
  app.add_option("--own-images", options.own_images,
                 "prefixes of images that contain Ringmaster's programs, separated by commas, for "
                 "example registry.example.com/ringmaster-worker")
      ->delimiter(',');
  app.add_option("--job-network-policies", options.job_network_policies,
                 "create NetworkPolicies for each job, which admit only its Pods and the operator")
      ->capture_default_str();
  app.add_option("--identity", options.identity,
                 "identity of this process in the Lease; default: Pod name and a random suffix");
  app.add_option("--workers", options.workers, "number of jobs that are reconciled concurrently")
      ->capture_default_str();
  app.add_flag("--leader-elect,!--no-leader-elect", options.leader_elect,
               "enable leader election with a Lease (default: true)");
  app.add_option("--lease-name", options.lease_name, "name of the Lease")->capture_default_str();
  app.add_option("--lease-duration", options.lease_duration,
                 "how long standbys wait before they replace a silent leader")
      ->capture_default_str();
  app.add_option("--renew-deadline", options.renew_deadline,
                 "how long the leader retries renewing the Lease before it steps down")
      ->capture_default_str();
  app.add_option("--retry-period", options.retry_period,
                 "time between two attempts to acquire or renew the Lease")
      ->capture_default_str();
  app.add_option("--admin-address", options.admin_address,
                 "address of /healthz and /readyz: IP address or host name, optionally with :port; "
                 "default: all addresses");
  app.add_option("--admin-port", options.admin_port, "port of /healthz and /readyz")
      ->capture_default_str();
  app.add_option("--metrics-address", options.metrics_address,
                 "address of /metrics (HTTPS): IP address or host name, optionally with :port; "
                 "default: all addresses");
  app.add_option("--metrics-port", options.metrics_port, "port of /metrics")->capture_default_str();
  app.add_option(
         "--metrics-authorization", options.metrics_authorization,
         "require a bearer token for /metrics, checked by TokenReview and SubjectAccessReview")
      ->capture_default_str();
  app.add_option("--metrics-certificates", options.metrics_certificates,
                 "directory with tls.crt and tls.key for /metrics, reloaded when they change; "
                 "default: a self-signed certificate");
  app.add_option("--log-level", options.log_level, "minimum log level")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format, "log format")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_flag("--print-config", options.print_config,
               "print the validated configuration and exit");
  app.add_flag("--release-jobs", options.release_jobs,
               "after this installation was removed: wait for its Lease, set Managed=False on each "
               "of its jobs, and exit");
}

}  // namespace

CommandLine ParseCommandLine(int argc, char** argv) {
  CommandLine parsed;
  CLI::App app("Runs TrainingJobs: multi-node training on Kubernetes", "ringmaster-operator");
  app.set_version_flag("--version", std::string("ringmaster-operator " RINGMASTER_VERSION));
  AddFlags(app, parsed.options);
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.done = true;
    parsed.exit_code = app.exit(error) == 0 ? 0 : 2;
  }
  return parsed;
}

Result<milliseconds> ParseDuration(const std::string& text) {
  const Error error{
      ErrorKind::kInvalid,
      "\"" + text + "\" is not a valid duration; write for example 900ms, 4s or 1.5m"};
  const std::size_t unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == 0 || unit_at == std::string::npos) return error;
  double value = 0;
  std::istringstream number(text.substr(0, unit_at));
  number.imbue(std::locale::classic());
  if (!(number >> value) || number.peek() != std::istringstream::traits_type::eof()) return error;
  const std::string unit = text.substr(unit_at);
  const double factor = unit == "ms"  ? 1
                        : unit == "s" ? 1e3
                        : unit == "m" ? 60e3
                        : unit == "h" ? 3600e3
                                      : 0;
  constexpr double kLongest = 30.0 * 24 * 3600e3;
  if (factor == 0 || value * factor > kLongest) return error;
  return milliseconds(std::llround(value * factor));
}

Result<Config> Finalize(const Options& options, const kube::Environment& environment) {
  Config config;
  if (options.workers < 1 || options.workers > 1000)
    return Invalid("--workers", "must be between 1 and 1000");
  if (Result<void> read = ReadDurations(options, config); !read.ok()) return read.error();
  const auto admin = WithPort(options.admin_address, options.admin_port, "--admin-port");
  if (!admin.ok()) return admin.error();
  const auto metrics = WithPort(options.metrics_address, options.metrics_port, "--metrics-port");
  if (!metrics.ok()) return metrics.error();
  Result<kube::ClusterConfig> cluster = kube::LoadClusterConfig(options.kubeconfig, environment);
  if (!cluster.ok()) return cluster.error();

  config.cluster = *std::move(cluster);
  config.ns = FirstOf(options.ns, environment("POD_NAMESPACE"), config.cluster.ns);
  config.watch_namespace = options.watch_namespace;
  config.exclude_namespaces = options.exclude_namespaces;
  config.presets = options.presets;
  config.tools_image = options.tools_image;
  config.worker_image = options.worker_image;
  config.own_images = options.own_images;
  config.job_network_policies = options.job_network_policies;
  config.instance = FirstOf(environment("POD_NAME"), options.identity, HostName());
  config.identity =
      options.identity.empty() ? config.instance + "_" + RandomHex() : options.identity;
  config.workers = options.workers;
  config.leader_elect = options.leader_elect;
  config.lease_name = options.lease_name;
  config.admin_address = *admin;
  config.metrics_address = *metrics;
  config.metrics_authorization = options.metrics_authorization;
  config.metrics_certificates = options.metrics_certificates;
  config.log_level = options.log_level;
  config.log_format = options.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  return config;
}

runtime::LeaderElectorOptions Config::Election() const {
  return {.ns = ns,
          .name = lease_name,
          .identity = identity,
          .lease_duration = lease_duration,
          .renew_deadline = renew_deadline,
          .retry_period = retry_period};
}

std::string Config::Text() const {
  std::ostringstream text;
  text << "server: " << cluster.server << "\nnamespace: " << ns
       << "\nwatchNamespace: " << (watch_namespace.empty() ? "(all)" : watch_namespace)
       << "\nexcludeNamespaces: " << CLI::detail::join(exclude_namespaces, ",")
       << "\npresets: " << (presets.empty() ? "(none)" : presets)
       << "\ntoolsImage: " << (tools_image.empty() ? "(none)" : tools_image)
       << "\nworkerImage: " << (worker_image.empty() ? "(none)" : worker_image)
       << "\nownImages: " << CLI::detail::join(own_images, ",")
       << "\njobNetworkPolicies: " << (job_network_policies ? "true" : "false")
       << "\nidentity: " << identity << "\nworkers: " << workers
       << "\nleaderElect: " << (leader_elect ? "true" : "false") << "\nleaseName: " << lease_name
       << "\nleaseDurationMillis: " << lease_duration.count()
       << "\nrenewDeadlineMillis: " << renew_deadline.count()
       << "\nretryPeriodMillis: " << retry_period.count() << "\nadminAddress: " << admin_address
       << "\nmetricsAddress: " << metrics_address
       << "\nmetricsAuthorization: " << (metrics_authorization ? "true" : "false")
       << "\nmetricsCertificates: "
       << (metrics_certificates.empty() ? "(its own)" : metrics_certificates)
       << "\nlogLevel: " << log_level
       << "\nlogFormat: " << (log_format == LogFormat::kJson ? "json" : "text") << "\n";
  return text.str();
}

}  // namespace ringmaster
