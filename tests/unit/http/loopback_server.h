#pragma once

// A small HTTP/1.1 server on loopback, plain or TLS, for the tests of the real client: answers come
// from a function, and what it does wrong (silence, cut connections, half lines) is up to the test.
// One thread per connection.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace ringmaster::http {

struct SeenRequest {
  std::string head;  // request line and headers, as received
  std::string body;
  int connection = 0;  // number of the connection it came on
};

// What the server sends for one request: `bytes` go out as they are; then the connection is kept or
// closed.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual bool Write(const std::string& bytes) = 0;  // false: the client has gone
  virtual void Close() = 0;
  virtual void WaitUntilClientCloses() = 0;
};

std::string PlainAnswer(int status, const std::string& body, const std::string& extra_headers = {});

class LoopbackServer {
 public:
  using Handler = std::function<void(const SeenRequest&, Reply&)>;

  struct Identity {
    std::string certificate_pem;
    std::string key_pem;
  };
  // A self-signed Ed25519 certificate for a DNS name, or for 127.0.0.1 when `ip` is set.
  static Identity MakeIdentity(const std::string& name, bool ip = false);

  // Plain without identity, else TLS.
  explicit LoopbackServer(Handler handler, const Identity* identity = nullptr);
  ~LoopbackServer();

  std::string url() const;  // "http(s)://127.0.0.1:<port>"
  int connections() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::http
