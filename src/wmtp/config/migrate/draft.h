// The new configuration while it is made: values of keys, each with the place it comes from.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/config/yaml/node.h"

namespace wmtp::config {

// A value on one line of YAML, numbers as they were written.
std::string flow_text(const Node& node);

class Draft {
 public:
  struct Entry {
    std::string key;
    Node value;
    Place place;          // in the old file
    std::string comment;  // behind the value
  };
  struct Text {
    std::string yaml;
    std::vector<Place> places;  // of each line
  };

  Entry* find(std::string_view key);
  std::string text_of(std::string_view key);  // of a scalar; empty where it is not written
  // REQUIRES a key of the schema.
  Entry& put(Entry entry);
  void erase(std::string_view key);
  std::vector<std::string> keys() const;  // in the order of the schema

  // In the order of the schema, between comment lines.
  Text text(const std::vector<std::string>& head, const std::vector<std::string>& tail) const;

 private:
  std::map<std::size_t, Entry> entries_;  // by row of the schema
};

}  // namespace wmtp::config
