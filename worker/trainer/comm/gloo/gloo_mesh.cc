#include "worker/trainer/comm/gloo/gloo_mesh.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include "worker/trainer/comm/missing_key.h"
#include "worker/trainer/comm/operation_queue.h"

namespace ringmaster::trainer {
namespace {

// Gives access to members that gloo::Context keeps for its subclasses.
class OpenContext final : public gloo::Context {
 public:
  explicit OpenContext(const World& world) : gloo::Context(world.rank, world.size) {}

  void Adopt(std::shared_ptr<gloo::transport::Device> device,
             std::shared_ptr<gloo::transport::Context> transport) {
    device_ = std::move(device);
    transportContext_ = std::move(transport);
  }
};

std::string KeyOf(int from, int to) {
  return "gloo/" + std::to_string(from) + "/" + std::to_string(to);
}

bool SameEndpoint(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    const auto& x = reinterpret_cast<const sockaddr_in&>(a);
    const auto& y = reinterpret_cast<const sockaddr_in&>(b);
    return x.sin_port == y.sin_port && x.sin_addr.s_addr == y.sin_addr.s_addr;
  }
  if (a.ss_family == AF_INET6) {
    const auto& x = reinterpret_cast<const sockaddr_in6&>(a);
    const auto& y = reinterpret_cast<const sockaddr_in6&>(b);
    return x.sin6_port == y.sin6_port &&
           std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof(x.sin6_addr)) == 0;
  }
  return false;
}

// While an object of this class exists, threads that this thread starts run under SCHED_BATCH, so
// that they do not preempt other threads when they wake up. Used for the thread that serves a Gloo
// device's sockets. Instead of waiting for a connection's lock, that thread calls epoll repeatedly
// (Pair::handleEvents in tcp/pair.cc) and so takes the core from the operation that holds the lock.
// With SCHED_BATCH, reducing 1 MiB takes half the time (figure B12). If a sandbox forbids the
// policy, nothing changes. Pinning threads instead would put all Pods of a node on core 0.
class StartsBatchThreads {
 public:
  StartsBatchThreads() {
    if (pthread_getschedparam(pthread_self(), &policy_, &parameters_) != 0) return;
    const sched_param none{};
    changed_ =
        policy_ == SCHED_OTHER && pthread_setschedparam(pthread_self(), SCHED_BATCH, &none) == 0;
  }
  ~StartsBatchThreads() {
    if (changed_) pthread_setschedparam(pthread_self(), policy_, &parameters_);
  }
  StartsBatchThreads(const StartsBatchThreads&) = delete;
  StartsBatchThreads& operator=(const StartsBatchThreads&) = delete;

 private:
  int policy_ = 0;
  sched_param parameters_{};
  bool changed_ = false;
};

std::shared_ptr<gloo::transport::Device> MakeDevice(const std::string& address) {
  const StartsBatchThreads batch;
  return gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
}

bool EndsAt(int socket, const std::vector<sockaddr_storage>& addresses) {
  sockaddr_storage local{};
  sockaddr_storage remote{};
  socklen_t local_size = sizeof(local);
  socklen_t remote_size = sizeof(remote);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&local), &local_size) != 0) return false;
  const bool connected =
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&remote), &remote_size) == 0;
  return std::any_of(addresses.begin(), addresses.end(), [&](const sockaddr_storage& address) {
    return SameEndpoint(address, local) || (connected && SameEndpoint(address, remote));
  });
}

std::vector<int> OpenDescriptors() {
  std::vector<int> found;
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd > 0) found.push_back(fd);  // 0: ".", ".." or standard input
  }
  ::closedir(folder);
  return found;
}

// Shuts down this process's sockets whose local or remote end is among `addresses`. Inspects a
// duplicate of each descriptor, because Gloo may close the original at any time, and its number may
// then belong to a socket of the next world.
void ShutDownSocketsAt(const std::vector<sockaddr_storage>& addresses) {
  for (const int fd : OpenDescriptors()) {
    const int held = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (held < 0) continue;
    if (EndsAt(held, addresses)) ::shutdown(held, SHUT_RDWR);
    ::close(held);
  }
}

}  // namespace

Result<void> GlooMesh::Connect(const World& world, Deadline deadline) {
  Store& store = *world.store;
  const std::string address = world.address.empty() ? "127.0.0.1" : world.address;
  auto device = MakeDevice(address);
  auto transport = device->createContext(world.rank, world.size);
  transport->setTimeout(Left(deadline));

  std::vector<std::string> keys;
  std::vector<int> peers;
  for (int peer = 0; peer < world.size; ++peer) {
    if (peer == world.rank) continue;
    const std::vector<char> bytes = transport->createPair(peer)->address().bytes();
    Remember(bytes);
    const Result<void> set =
        store.Set(KeyOf(world.rank, peer), std::string(bytes.begin(), bytes.end()));
    if (!set.ok()) return set.error().WithContext("publishing this rank's address");
    keys.push_back(KeyOf(peer, world.rank));
    peers.push_back(peer);
  }
  const Result<std::vector<std::string>> found = store.Get(keys, deadline);
  if (!found.ok()) {
    const bool late = found.error().kind == ErrorKind::kTimeout;
    const auto missing = late && !down_ ? OnlyMissing(store, keys) : std::nullopt;
    missing_ = missing ? peers[*missing] : -1;
    return found.error().WithContext("looking for the other ranks' addresses");
  }

  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (down_)
      return Error{ErrorKind::kCancelled,
                   "the world was abandoned while its ranks were connecting"};
    const std::string& bytes = (*found)[i];
    const std::vector<char> peer_address(bytes.begin(), bytes.end());
    Remember(peer_address);
    auto& pair = transport->getPair(peers[i]);
    missing_ = peers[i];  // remains set if connect() throws
    if (world.waits_for) world.waits_for(peers[i]);
    pair->connect(peer_address);
    missing_ = -1;
    Remember(pair->address().bytes());
  }
  if (world.waits_for && !down_) world.waits_for(-1);
  auto context = std::make_shared<OpenContext>(world);
  context->Adopt(std::move(device), MakeWakeable(std::move(transport), buffers_));
  context_ = std::move(context);
  return {};
}

void GlooMesh::Remember(const std::vector<char>& address_bytes) {
  sockaddr_storage address{};  // Gloo's addresses begin with a sockaddr_storage
  if (address_bytes.size() < sizeof(address)) return;
  std::memcpy(&address, address_bytes.data(), sizeof(address));
  const MutexLock lock(mutex_);
  addresses_.push_back(address);
}

void GlooMesh::ShutDown() {
  down_ = true;
  buffers_->Wake();
  const MutexLock lock(mutex_);
  ShutDownSocketsAt(addresses_);
}

}  // namespace ringmaster::trainer
