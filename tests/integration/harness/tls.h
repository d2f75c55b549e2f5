#pragma once

// The blocking TLS streams of the harness: one type for the API client, the proxy and the fake
// launcher, compiled with Beast in three source files only.

#include <string>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "tests/integration/harness/api_client.h"

namespace ringmaster::testing {

namespace net = boost::asio;
namespace http = boost::beast::http;
using TlsStream = net::ssl::stream<net::ip::tcp::socket>;
using ErrorCode = boost::system::error_code;

// Makes the context trust only the endpoint's CA, and use the endpoint's certificate, if any.
inline void ConfigureClient(net::ssl::context& context, const Endpoint& endpoint) {
  context.load_verify_file(endpoint.ca_file);
  context.set_verify_mode(net::ssl::verify_peer);
  if (!endpoint.certificate_file.empty()) {
    context.use_certificate_chain_file(endpoint.certificate_file);
    context.use_private_key_file(endpoint.key_file, net::ssl::context::pem);
  }
}

inline void ConnectTls(TlsStream& stream, const Endpoint& endpoint, ErrorCode& error) {
  const net::ip::tcp::endpoint where(net::ip::make_address(endpoint.address),
                                     static_cast<unsigned short>(endpoint.port));
  stream.lowest_layer().connect(where, error);
  if (error) return;
  stream.lowest_layer().set_option(net::ip::tcp::no_delay(true), error);
  stream.set_verify_callback(net::ssl::host_name_verification(endpoint.address));
  stream.handshake(net::ssl::stream_base::client, error);
}

// Returns the buffered bytes, or reads more if there are none.
inline std::string TakeBytes(TlsStream& stream, boost::beast::flat_buffer& buffer,
                             ErrorCode& error) {
  if (buffer.size() == 0) buffer.commit(stream.read_some(buffer.prepare(65536), error));
  std::string bytes = boost::beast::buffers_to_string(buffer.data());
  buffer.consume(buffer.size());
  return bytes;
}

}  // namespace ringmaster::testing
