#pragma once

// Runs the worker's sshd, through which mpirun starts its daemon on this host. Writes the
// configuration, runs sshd as any user on a free port, restarts it after a failure, and reports
// when it accepts connections. Single-threaded.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/process/captured_process.h"
#include "common/process/child_reaper.h"
#include "worker/agent/host/sshd_config.h"

namespace ringmaster::agent {

struct SshdOptions {
  SshdSettings settings;  // port 0: a free port, chosen again at each start
  std::filesystem::path config_file;
  std::string path;  // PATH that is searched for sshd, before the usual system folders
};

class Sshd {
 public:
  struct Handlers {
    std::function<void(int port)> on_ready;  // called each time sshd becomes ready
    std::function<void(const std::string& message)>
        on_fault;  // called if sshd fails repeatedly; sshd is still restarted
  };

  // `io` and `reaper` must outlive this object.
  Sshd(boost::asio::io_context& io, ChildReaper& reaper, SshdOptions options, Handlers handlers);
  ~Sshd();

  void Start();
  void Stop();

 private:
  void Run();
  void Probe();
  void OnProbed(const boost::system::error_code& error);
  void OnEnd(ProcessEnd end, const LastLines& last_lines);
  void Fail(const std::string& message);
  Result<void> WriteConfig();

  boost::asio::io_context& io_;
  ChildReaper& reaper_;
  const SshdOptions options_;
  const Handlers handlers_;
  std::shared_ptr<CapturedProcess> process_;
  boost::asio::ip::tcp::socket probe_;
  boost::asio::steady_timer retry_;
  boost::asio::steady_timer probe_limit_;
  int port_ = 0;
  int failures_ = 0;  // consecutive starts without an accepted connection
  bool ready_ = false;
  bool stopped_ = false;
};

// Returns the absolute path of sshd, or an empty text. sshd only runs if it is started by its
// absolute path.
std::string FindSshd(const std::string& path);

}  // namespace ringmaster::agent
