#include "tests/integration/harness/plain_http.h"

#include <cctype>
#include <memory>

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "tests/integration/harness/tls.h"

namespace ringmaster::testing {

namespace {

net::ip::tcp::endpoint Loopback(int port) {
  return {net::ip::address_v4::loopback(), static_cast<unsigned short>(port)};
}

template <typename Stream>
PlainAnswer Get(Stream& stream, const std::string& path, const std::string& token) {
  ErrorCode error;
  http::request<http::empty_body> request(http::verb::get, path, 11);
  request.set(http::field::host, "127.0.0.1");
  if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
  request.keep_alive(false);
  http::write(stream, request, error);
  http::response<http::string_body> response;
  boost::beast::flat_buffer buffer;
  if (!error) http::read(stream, buffer, response, error);
  if (error) return {};
  return {static_cast<int>(response.result_int()), response.body()};
}

}  // namespace

PlainAnswer PlainGet(int port, const std::string& path) {
  ErrorCode error;
  net::io_context io;
  net::ip::tcp::socket socket(io);
  socket.connect(Loopback(port), error);
  return error ? PlainAnswer{} : Get(socket, path, {});
}

PlainAnswer TlsGet(int port, const std::string& path, const std::string& token) {
  ErrorCode error;
  net::io_context io;
  net::ssl::context context(net::ssl::context::tls_client);
  TlsStream stream(io, context);
  stream.lowest_layer().connect(Loopback(port), error);
  if (!error) stream.handshake(net::ssl::stream_base::client, error);
  return error ? PlainAnswer{} : Get(stream, path, token);
}

std::string TlsCertificateOf(int port) {
  ErrorCode error;
  net::io_context io;
  net::ssl::context context(net::ssl::context::tls_client);
  TlsStream stream(io, context);
  stream.lowest_layer().connect(Loopback(port), error);
  if (!error) stream.handshake(net::ssl::stream_base::client, error);
  const std::unique_ptr<X509, decltype(&X509_free)> shown(
      SSL_get1_peer_certificate(stream.native_handle()), X509_free);
  if (error || shown == nullptr) return {};
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(text.get(), shown.get());
  char* data = nullptr;
  const auto size = BIO_get_mem_data(text.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string PercentEncode(const std::string& text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return encoded;
}

}  // namespace ringmaster::testing
