#include "wmtp/cli/error_file.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "wmtp/core/error.h"

namespace wmtp::cli {

void write_error_file(bool is_cause, std::string_view message, std::string_view where) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path) return;
  if (!is_cause) std::this_thread::sleep_for(std::chrono::seconds(1));
  std::string line(message.substr(0, message.find('\n')));
  const nlohmann::json text{
      {"message",
       {{"message", line},
        {"extraInfo",
         {{"py_callstack", where}, {"timestamp", std::to_string(std::time(nullptr))}}}}}};
  const std::string temporary = std::string(path) + "." + std::to_string(::getpid()) + ".tmp";
  {
    std::ofstream out(temporary, std::ios::binary);
    out << text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (!out.flush()) return;
  }
  if (std::rename(temporary.c_str(), path) != 0) std::remove(temporary.c_str());
}

}  // namespace wmtp::cli
