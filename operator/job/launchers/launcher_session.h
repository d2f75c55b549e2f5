#pragma once

// The operator's connection to one launcher: connects, sends the order or gets the status, waits,
// and repeats. Runs on the poller's io_context thread. Used only by launcher_poller.cc.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/base/clock.h"
#include "common/control/launcher_api.h"
#include "common/control/tls.h"
#include "operator/job/launchers/launcher_poller.h"

namespace ringmaster::job {

class LauncherSession : public std::enable_shared_from_this<LauncherSession> {
 public:
  // Called on the io_context's thread after every exchange. `changed`: whether the answer differs
  // from the previous one.
  using OnView = std::function<void(const LauncherView& view, bool changed)>;

  static std::shared_ptr<LauncherSession> Make(boost::asio::io_context& io, const Clock& clock,
                                               const LauncherPollerOptions& options,
                                               LauncherTarget target, OnView on_view);
  virtual ~LauncherSession() = default;

  // Call these methods only on the io_context's thread.
  virtual void Start() = 0;
  virtual void SetOrder(const control::Order& order) = 0;
  virtual void Stop() = 0;
  virtual const LauncherTarget& target() const = 0;
};

}  // namespace ringmaster::job
