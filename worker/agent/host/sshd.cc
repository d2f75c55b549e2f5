#include "worker/agent/host/sshd.h"

#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>

#include "common/base/backoff.h"
#include "common/base/log.h"
#include "common/control/secrets.h"

namespace ringmaster::agent {
namespace {

using boost::asio::ip::tcp;

constexpr std::chrono::milliseconds kProbeInterval{5};
constexpr std::chrono::milliseconds kStartLimit{10'000};
constexpr std::chrono::milliseconds kStopGrace{100};
constexpr char kProbeBanner[] = "SSH-2.0-ringmaster\r\n";
constexpr int kFailuresBeforeFault = 3;
constexpr BackoffOptions kRestart{std::chrono::milliseconds(20), std::chrono::milliseconds(5000)};

// Returns an unused port. If another program takes the port first, sshd restarts with a new port.
int FreePort(boost::asio::io_context& io, const boost::asio::ip::address& address) {
  boost::system::error_code error;
  tcp::acceptor acceptor(io);
  acceptor.open(address.is_v6() ? tcp::v6() : tcp::v4(), error);
  if (!error) acceptor.bind(tcp::endpoint(address, 0), error);
  const tcp::endpoint local = error ? tcp::endpoint() : acceptor.local_endpoint(error);
  return error ? 0 : local.port();
}

std::string Joined(const LastLines& last_lines) {
  std::string text;
  for (const std::string& line : last_lines.Lines()) text += (text.empty() ? "" : " | ") + line;
  return text.empty() ? "no output" : text;
}

}  // namespace

std::string FindSshd(const std::string& path) {
  const std::string file = FindProgram("sshd", path + ":/usr/sbin:/usr/local/sbin:/usr/bin");
  return file.starts_with('/') ? file : "";
}

Sshd::Sshd(boost::asio::io_context& io, ChildReaper& reaper, SshdOptions options, Handlers handlers)
    : io_(io),
      reaper_(reaper),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      probe_(io),
      retry_(io),
      probe_limit_(io) {}

Sshd::~Sshd() { Stop(); }

void Sshd::Start() {
  // As root, sshd requires its privilege separation directory, which may be missing because it is
  // on a tmpfs.
  if (geteuid() == 0) mkdir("/run/sshd", 0755);
  Run();
}

void Sshd::Stop() {
  stopped_ = true;
  retry_.cancel();
  probe_limit_.cancel();
  boost::system::error_code ignored;
  probe_.close(ignored);
  if (process_ == nullptr) return;
  process_->Forget();
  process_->Stop(kStopGrace);
  process_.reset();
}

void Sshd::Run() {
  const std::string program = FindSshd(options_.path);
  if (program.empty()) return Fail("there is no sshd in the image; install openssh-server");
  if (Result<void> written = WriteConfig(); !written.ok()) return Fail(written.error().message);
  ProcessSpec spec;
  spec.argv = {program, "-D", "-e", "-f", options_.config_file.string()};
  spec.environment = {"PATH=" + options_.path};
  Result<std::shared_ptr<CapturedProcess>> started = CapturedProcess::Start(
      reaper_, std::move(spec),
      {.on_output =
           [](bool, std::string_view data) {
             while (data.ends_with('\n') || data.ends_with('\r')) data.remove_suffix(1);
             LogWarn("sshd reported", {{"text", data}});
           },
       .on_end = [this](ProcessEnd end, const LastLines& lines) { OnEnd(end, lines); }});
  if (!started.ok()) return Fail(started.error().message);
  process_ = *started;
  ready_ = false;
  probe_limit_.expires_after(kStartLimit);
  Probe();
}

Result<void> Sshd::WriteConfig() {
  SshdSettings settings = options_.settings;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(settings.listen_address, error);
  if (settings.port == 0 && !error) settings.port = FreePort(io_, address);
  if (settings.port == 0) {
    return Error{ErrorKind::kUnavailable,
                 "no free port on the address " + settings.listen_address + " for sshd"};
  }
  port_ = settings.port;
  return control::WriteFileAtomically(options_.config_file, SshdConfigText(settings));
}

// Connects to sshd as mpirun's ssh does. sshd is ready only once it accepts a connection.
void Sshd::Probe() {
  boost::system::error_code error;
  probe_.close(error);
  const auto address = boost::asio::ip::make_address(options_.settings.listen_address, error);
  probe_.async_connect(tcp::endpoint(address, static_cast<unsigned short>(port_)),
                       [this](const boost::system::error_code& failed) {
                         if (failed != boost::asio::error::operation_aborted) OnProbed(failed);
                       });
}

void Sshd::OnProbed(const boost::system::error_code& error) {
  if (stopped_ || process_ == nullptr) return;
  if (!error) {
    boost::system::error_code ignored;
    // sshd logs an error for a peer that sends nothing, but not for a peer that identifies itself
    // and disconnects.
    probe_.write_some(boost::asio::buffer(kProbeBanner, sizeof kProbeBanner - 1), ignored);
    probe_.close(ignored);
    ready_ = true;
    failures_ = 0;
    return handlers_.on_ready(port_);
  }
  if (probe_limit_.expiry() <= std::chrono::steady_clock::now()) {
    process_->Stop(kStopGrace);  // when it has ended, OnEnd() restarts it
    return;
  }
  retry_.expires_after(kProbeInterval);
  retry_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) Probe();
  });
}

void Sshd::OnEnd(ProcessEnd end, const LastLines& last_lines) {
  process_.reset();
  Fail("sshd exited with " +
       (end.signal != 0 ? "signal " + std::to_string(end.signal)
                        : "code " + std::to_string(end.exit_code)) +
       " on port " + std::to_string(port_) + ": " + Joined(last_lines));
}

void Sshd::Fail(const std::string& message) {
  ++failures_;
  ready_ = false;
  LogWarn("Failed to run sshd, retrying", {{"reason", message}, {"failures", failures_}});
  if (failures_ == kFailuresBeforeFault) handlers_.on_fault(message);
  retry_.expires_after(BackoffDelay(kRestart, failures_, 0));
  retry_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled && !stopped_) Run();
  });
}

}  // namespace ringmaster::agent
