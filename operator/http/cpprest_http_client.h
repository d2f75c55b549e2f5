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

// Starts the library's thread pool. Must run before any other thread starts, because it changes the
// environment so that OpenSSL does not load the system's certificate authorities. Returns kInternal
// if the pool already exists.
Result<void> InitializeHttpThreads(int threads = 4);

class DeadlineWatch;

// Thread-safe. The factory must outlive its clients.
class CpprestHttpClientFactory final : public HttpClientFactory {
 public:
  CpprestHttpClientFactory();
  ~CpprestHttpClientFactory() override;

  Result<std::unique_ptr<HttpClient>> Make(const HttpClientOptions& options) override;

 private:
  const std::unique_ptr<DeadlineWatch> deadlines_;
};

}  // namespace ringmaster::http
