#include "wmtp/cli/command.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "wmtp/core/time.h"

namespace wmtp::cli {

bool Session::color_on(int fd) const {
  if (color == "always") return true;
  if (color == "never" || std::getenv("NO_COLOR")) return false;
  return ::isatty(fd) == 1;
}

void emit_json(std::string_view type, const nlohmann::ordered_json& fields, bool stamped) {
  nlohmann::ordered_json line{{"type", type}};
  if (stamped) line["ts"] = utc_timestamp();
  line.update(fields);
  std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

void add_commands(CLI::App& app, Session& session) {
  add_validate(app, session);
  add_version(app, session);
}

}  // namespace wmtp::cli
