#include "operator/job/launchers/launcher_poller.h"

#include <map>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "operator/job/launchers/launcher_session.h"

namespace ringmaster::job {

class LauncherPoller::Impl {
 public:
  Impl(const Clock& clock, std::function<void(const std::string&)> on_news,
       LauncherPollerOptions options)
      : clock_(clock),
        on_news_(std::move(on_news)),
        options_(options),
        work_(boost::asio::make_work_guard(io_)),
        thread_([this] { Run(); }) {}

  ~Impl() {
    boost::asio::post(io_, [this] {
      for (auto& [uid, session] : sessions_) session->Stop();
      sessions_.clear();
      work_.reset();
    });
  }

  void Watch(LauncherTarget target) {
    boost::asio::post(io_, [this, target = std::move(target)]() mutable {
      const auto found = sessions_.find(target.job_uid);
      if (found != sessions_.end()) {
        const LauncherTarget& have = found->second->target();
        if (have.pod_uid == target.pod_uid && have.pod_ip == target.pod_ip) {
          return found->second->SetOrder(target.order);
        }
        found->second->Stop();
        sessions_.erase(found);
      }
      Open(std::move(target));
    });
  }

  void Forget(const std::string& job_uid) {
    {
      const MutexLock lock(mutex_);
      views_.erase(job_uid);
    }
    boost::asio::post(io_, [this, job_uid] {
      const auto found = sessions_.find(job_uid);
      if (found == sessions_.end()) return;
      found->second->Stop();
      sessions_.erase(found);
      const MutexLock lock(mutex_);
      views_.erase(job_uid);
    });
  }

  std::optional<LauncherView> Latest(const std::string& job_uid) const {
    const MutexLock lock(mutex_);
    const auto found = views_.find(job_uid);
    if (found == views_.end()) return std::nullopt;
    return found->second;
  }

  LaunchersHeard Heard(const std::string& ns) const {
    const MutexLock lock(mutex_);
    return CountLaunchers(views_, ns);
  }

 private:
  void Run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& bug) {
        LogError("Caught an exception in the launcher poller", {{"what", bug.what()}});
      }
    }
  }

  void Open(LauncherTarget target) {
    const std::string uid = target.job_uid;
    const std::string key = target.job_key;
    auto session = LauncherSession::Make(io_, clock_, options_, std::move(target),
                                         [this, uid, key](const LauncherView& view, bool changed) {
                                           {
                                             const MutexLock lock(mutex_);
                                             views_[uid] = view;
                                           }
                                           if (changed) on_news_(key);
                                         });
    if (session == nullptr) return;
    sessions_[uid] = session;
    session->Start();
  }

  // Constant after construction.
  const Clock& clock_;
  const std::function<void(const std::string&)> on_news_;
  const LauncherPollerOptions options_;

  mutable Mutex mutex_;
  std::map<std::string, LauncherView> views_ RINGMASTER_GUARDED_BY(mutex_);  // by job UID

  boost::asio::io_context io_;
  // Called only on the thread of io_.
  std::map<std::string, std::shared_ptr<LauncherSession>> sessions_;  // by job UID
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;

  std::jthread thread_;
};

LauncherPoller::LauncherPoller(const Clock& clock,
                               std::function<void(const std::string& job_key)> on_news,
                               LauncherPollerOptions options)
    : impl_(std::make_unique<Impl>(clock, std::move(on_news), options)) {}

LauncherPoller::~LauncherPoller() = default;

void LauncherPoller::Watch(LauncherTarget target) { impl_->Watch(std::move(target)); }
void LauncherPoller::Forget(const std::string& job_uid) { impl_->Forget(job_uid); }
std::optional<LauncherView> LauncherPoller::Latest(const std::string& job_uid) const {
  return impl_->Latest(job_uid);
}
LaunchersHeard LauncherPoller::Heard(const std::string& ns) const { return impl_->Heard(ns); }

}  // namespace ringmaster::job
