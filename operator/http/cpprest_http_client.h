#pragma once

// Implements HttpClient with cpprestsdk. The library is no longer maintained, so only this
// class and its source file depend on it. Comments in the source explain how its pitfalls are
// avoided.
//
//   int main() {
//     http::InitializeHttpThreads();          // first, before anything uses the library
//     http::CpprestHttpClientFactory factory;
//     auto client = factory.Make({.base_url = ..., .ca_pem = ...});

#include <memory>

#include "operator/http/http_client.h"

namespace ringmaster::http {

// The library's pool, whose threads never block. Before any thread of the program, since it writes
// to the environment: OpenSSL finds no authorities of the system. kInternal when the pool exists
// already.
Result<void> InitializeHttpThreads(int threads = 4);

class DeadlineWatch;

// Thread-safe. Outlives the clients it made.
class CpprestHttpClientFactory final : public HttpClientFactory {
 public:
  CpprestHttpClientFactory();
  ~CpprestHttpClientFactory() override;

  Result<std::unique_ptr<HttpClient>> Make(const HttpClientOptions& options) override;

 private:
  const std::unique_ptr<DeadlineWatch> deadlines_;
};

}  // namespace ringmaster::http
