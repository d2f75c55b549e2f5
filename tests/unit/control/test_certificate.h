#pragma once

// A new self-signed Ed25519 certificate for tests of TLS, like the one that the operator creates
// for a real job.

#include <string>

namespace ringmaster::control {

struct TestCertificate {
  std::string key_pem;
  std::string certificate_pem;
};

TestCertificate MakeTestCertificate(const std::string& dns_name);

}  // namespace ringmaster::control
