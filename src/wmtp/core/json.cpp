#include "wmtp/core/json.h"

#include <fmt/format.h>

#include <unordered_set>
#include <vector>

#include "wmtp/core/file.h"
#include "wmtp/core/foreign_json.h"
#include "wmtp/core/planted_fault.h"

namespace wmtp {
namespace {

enum class WideIntegers { refused, doubles };

// Feeds nlohmann's DOM builder and refuses on the way what the builder would let pass.
class StrictBuilder : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

 public:
  StrictBuilder(Json& root, int max_depth, WideIntegers wide)
      : Base(root, false), max_depth_(max_depth), wide_(wide) {}

  const std::string& problem() const { return problem_; }
  std::size_t position() const { return position_; }

  bool number_float(number_float_t value, const std::string& literal) {
    // The lexer falls back to a float for integers that do not fit 64 bits.
    if (wide_ == WideIntegers::refused && literal.find_first_of(".eE") == std::string::npos)
      return refuse(fmt::format("integer {} does not fit 64 bits", literal.substr(0, 40)));
    return Base::number_float(value, literal);
  }
  bool start_object(std::size_t elements) {
    keys_.emplace_back();
    return deeper() && Base::start_object(elements);
  }
  bool key(string_t& name) {
    if (!keys_.back().insert(name).second)
      return refuse(fmt::format("duplicate key \"{}\"", name.substr(0, 80)));
    return Base::key(name);
  }
  bool end_object() {
    keys_.pop_back();
    --depth_;
    return Base::end_object();
  }
  bool start_array(std::size_t elements) { return deeper() && Base::start_array(elements); }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  template <class Exception>
  bool parse_error(std::size_t position, const std::string&, const Exception& error) {
    position_ = position;
    std::string text = error.what();  // "[json.exception.parse_error.101] parse error at line ..."
    const auto bracket = text.find("] ");
    return refuse(bracket == std::string::npos ? text : text.substr(bracket + 2));
  }

 private:
  bool deeper() {
    if (++depth_ > max_depth_ + static_cast<int>(planted_off_by_one))
      return refuse(fmt::format("nested deeper than {}", max_depth_));
    return true;
  }
  bool refuse(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  std::vector<std::unordered_set<std::string>> keys_;
  std::string problem_;
  std::size_t position_ = 0;
  int depth_ = 0;
  int max_depth_;
  WideIntegers wide_;
};

Json parse_with(std::string_view text, std::string_view name, const JsonLimits& limits,
                ErrorKind kind, WideIntegers wide) {
  if (text.size() > limits.max_bytes)
    throw Error(
        kind, "json",
        fmt::format("{}: {} bytes of JSON, the limit is {}", name, text.size(), limits.max_bytes));
  // nlohmann's lexer takes a NUL for the end of the text and would not look at what follows it.
  if (const auto nul = text.find('\0'); nul != text.npos)
    throw Error(kind, "json", fmt::format("{}: byte {} is NUL", name, nul),
                "is the file complete?");
  Json root;
  StrictBuilder builder(root, limits.max_depth, wide);
  if (!Json::sax_parse(text.begin(), text.end(), &builder))
    throw Error(kind, "json", fmt::format("{}: {}", name, builder.problem()),
                "is the file complete?");
  return root;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits,
                ErrorKind kind) {
  return parse_with(text, name, limits, kind, WideIntegers::refused);
}

Json parse_foreign_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
  return parse_with(text, name, limits, ErrorKind::data, WideIntegers::doubles);
}

Json read_foreign_json(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_foreign_json(read_file(path, limits.max_bytes, ErrorKind::data), path.string(),
                            limits);
}

Json read_json(const std::filesystem::path& path, const JsonLimits& limits, ErrorKind kind) {
  return parse_json(read_file(path, limits.max_bytes, kind), path.string(), limits, kind);
}

}  // namespace wmtp
