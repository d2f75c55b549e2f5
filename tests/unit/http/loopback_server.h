#pragma once

// A small HTTP/1.1 server on loopback, plain or over TLS, for tests of the real client. A function
// of the test writes the answers, and can inject faults (no answer, cut connections, incomplete
// lines). Each connection has a thread.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace ringmaster::http {

struct SeenRequest {
  std::string head;  // request line and headers, as received
  std::string body;
  int connection = 0;  // number of the connection that sent the request
};

// The server's answer to one request. Write() sends bytes unchanged. The test decides whether to
// close the connection.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual bool Write(const std::string& bytes) = 0;  // false: the client has closed
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
  // Makes a self-signed Ed25519 certificate for a DNS name, or for 127.0.0.1 if `ip` is set.
  static Identity MakeIdentity(const std::string& name, bool ip = false);

  // Uses TLS if `identity` is set, else plain HTTP.
  explicit LoopbackServer(Handler handler, const Identity* identity = nullptr);
  ~LoopbackServer();

  std::string url() const;  // "http(s)://127.0.0.1:<port>"
  int connections() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::http
