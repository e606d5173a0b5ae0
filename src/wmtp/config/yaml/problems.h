// Everything wrong with a configuration, collected over all its layers and reported at once.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/config/yaml/node.h"
#include "wmtp/core/error.h"

namespace wmtp::config {

struct Problem {
  std::string where;  // "configs/a.yaml:12:5", "--override 2"
  std::string text;   // "training.learning_rate: ..."
};

// Kind config (78). what() holds at most kMaxShown problems, one a line, and then their number.
class ConfigError : public Error {
 public:
  static constexpr std::size_t kMaxShown = 50;
  explicit ConfigError(std::vector<Problem> problems);
  const std::vector<Problem>& problems() const { return problems_; }  // all, sorted by place

 private:
  std::vector<Problem> problems_;
};

class Problems {
 public:
  int add_file(std::string name);      // returns the source number of a Place
  int add_override(std::string flag);  // as the user wrote it

  void add(Place place, std::string_view key, std::string_view fact);
  bool empty() const { return found_.empty(); }
  bool is_override(int source) const {
    return source >= 0 && !sources_[static_cast<std::size_t>(source)].is_file;
  }
  std::size_t size() const { return found_.size(); }
  std::string locate(Place place, bool with_column = true) const;  // "file:line:column"
  void throw_if_any() const;

 private:
  struct Found {
    Place place;
    std::string text;
  };
  struct Source {
    std::string name;
    bool is_file;
  };
  std::vector<Source> sources_;
  std::vector<Found> found_;
};

}  // namespace wmtp::config
