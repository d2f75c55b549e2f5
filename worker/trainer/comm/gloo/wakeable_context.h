#pragma once

// A Gloo transport whose waits can be ended from another thread. When a connection closes, Gloo
// wakes operations that wait to receive, but not operations that wait to send the rest of their
// data (Pair::signalException skips unbound buffers in transmission); these would wait until their
// timeout. Private to gloo_mesh.cc.

#include <memory>
#include <set>

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

#include "common/base/mutex.h"

namespace ringmaster::trainer {

// All existing buffers of a context. Thread-safe.
class WakeableBuffers {
 public:
  // Ends every current and later wait with an exception.
  void Wake();

  // Throws after Wake() was called.
  void Add(gloo::transport::UnboundBuffer* buffer);
  void Remove(gloo::transport::UnboundBuffer* buffer);

 private:
  Mutex mutex_;
  bool woken_ RINGMASTER_GUARDED_BY(mutex_) = false;
  std::set<gloo::transport::UnboundBuffer*> buffers_ RINGMASTER_GUARDED_BY(mutex_);
};

// Wraps a connected transport: passes all calls to `inner`, and creates buffers in `buffers`.
std::shared_ptr<gloo::transport::Context> MakeWakeable(
    std::shared_ptr<gloo::transport::Context> inner, std::shared_ptr<WakeableBuffers> buffers);

}  // namespace ringmaster::trainer
