#pragma once

// TLS settings of Ringmaster's own connections. The launcher presents the job's self-signed
// certificate; clients trust only that certificate, ignore the system's certificate authorities,
// and check the name in it. Requires TLS 1.2 and prefers 1.3. Used by line_connection.h, the
// launcher's HTTPS server and tests.

#include <memory>
#include <string>

#include "common/base/result.h"

namespace boost::asio::ssl {
class context;
}

namespace ringmaster::control {

// Immutable after creation, except for OpenSSL's internal state. Connections hold references to
// it.
class TlsContext {
 public:
  // Returns the launcher's context, from the items tls.key and tls.crt (PEM). kInvalid if they are
  // unusable or do not match.
  static Result<std::unique_ptr<TlsContext>> Server(const std::string& key_pem,
                                                    const std::string& certificate_pem);

  // Returns a client's context, which accepts only this certificate, and only under this name.
  static Result<std::unique_ptr<TlsContext>> Client(const std::string& certificate_pem,
                                                    const std::string& server_name);

  ~TlsContext();

  boost::asio::ssl::context& asio() { return *context_; }
  const std::string& server_name() const { return server_name_; }  // empty for servers

 private:
  TlsContext(std::unique_ptr<boost::asio::ssl::context> context, std::string server_name);

  std::unique_ptr<boost::asio::ssl::context> context_;
  std::string server_name_;
};

// The name in a job's certificate: "launcher.<job uid>.ringmaster.dev".
std::string TlsServerName(const std::string& job_uid);

}  // namespace ringmaster::control
