#include "wmtp/config/yaml/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <istream>
#include <map>
#include <set>
#include <streambuf>
#include <utility>

#include "wmtp/config/yaml/yaml_scan.h"

namespace wmtp::config {
namespace {

struct Stop {  // a broken limit: ends the text
  Place place;
  std::string fact;
};

// Builds the tree from the parser's events, so that no limit is checked too late.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, int source, Problems& problems)
      : text_(text), source_(source), problems_(problems) {}

  std::optional<Node> take() { return std::exchange(root_, std::nullopt); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(started_, true)) stop(mark, "several documents in one file are refused");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(plain_scalar("", at(mark)), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    if (!quote_is_closed(mark)) stop(mark, "the quote is not closed");
    if (tag != "?") return add(text_node(value, at(mark)), anchor);
    try {
      add(wants_key() ? text_node(value, at(mark)) : plain_scalar(value, at(mark)), anchor);
    } catch (const std::string& fact) {
      problems_.add(at(mark), path(), fact);
      Node node = text_node(value, at(mark));
      node.bad = true;
      add(std::move(node), anchor);
    }
    if (value == "<<" && was_key_)
      stop(mark, "merge keys << are refused; write the keys out or use extends");
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::list);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor = 0;
    std::optional<NodeKey> key;  // read, its value is next
    std::set<std::string> seen;  // keys of a map
  };

  Place at(const YAML::Mark& mark) const { return {source_, mark.line + 1, mark.column + 1}; }
  [[noreturn]] void stop(const YAML::Mark& mark, std::string fact) const {
    throw Stop{at(mark), std::move(fact)};
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      stop(mark, fmt::format("tags are refused, found {}", tag));
  }
  bool wants_key() const {
    return !stack_.empty() && stack_.back().node.is(Node::Kind::map) && !stack_.back().key;
  }
  bool quote_is_closed(const YAML::Mark& mark) const;
  std::string path() const;
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind);
  void close();
  void add(Node node, YAML::anchor_t anchor);
  void add_key(Node node);
  void count(std::size_t num_new, Place place);
  void keep_anchor(const Node& node, YAML::anchor_t anchor);

  std::string_view text_;
  int source_;
  Problems& problems_;
  std::vector<Open> stack_;
  std::map<YAML::anchor_t, Node> anchors_;  // finished ones
  std::optional<Node> root_;
  std::size_t num_nodes_ = 0, num_aliases_ = 0, num_anchored_ = 0;
  bool started_ = false;
  bool was_key_ = false;  // the last added scalar was a key
};

// yaml-cpp takes a quoted scalar that the end of the file cuts off for a whole one.
bool TreeBuilder::quote_is_closed(const YAML::Mark& mark) const {
  std::size_t i = static_cast<std::size_t>(mark.pos);
  if (i >= text_.size() || (text_[i] != '"' && text_[i] != '\'')) return true;
  const char quote = text_[i++];
  for (; i < text_.size() && text_[i] != quote; ++i)
    if (text_[i] == '\\' && quote == '"') ++i;
  return i < text_.size();
}

std::string TreeBuilder::path() const {
  std::string text;
  for (const Open& open : stack_) {
    if (open.key) text += (text.empty() ? "" : ".") + open.key->name;
    if (open.node.is(Node::Kind::list)) text += fmt::format("[{}]", open.node.items.size());
  }
  return text;
}

void TreeBuilder::count(std::size_t num_new, Place place) {
  num_nodes_ += num_new;
  if (num_nodes_ > YamlLimits::kNodes)
    throw Stop{place, fmt::format("more than {} nodes after alias expansion", YamlLimits::kNodes)};
}

// Anchors inside anchors are stored once per level: their sum is bounded too.
void TreeBuilder::keep_anchor(const Node& node, YAML::anchor_t anchor) {
  if (!anchor) return;
  num_anchored_ += count_nodes(node);
  if (num_anchored_ > YamlLimits::kNodes)
    throw Stop{node.place, fmt::format("anchors on more than {} nodes", YamlLimits::kNodes)};
  anchors_[anchor] = node;
}

void TreeBuilder::open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       Node::Kind kind) {
  refuse_tag(mark, tag);
  if (wants_key()) stop(mark, "a key must be a plain or quoted text; is a bracket left open?");
  if (stack_.size() == YamlLimits::kDepth)
    stop(mark, fmt::format("nested deeper than {} levels", YamlLimits::kDepth));
  count(1, at(mark));
  Open next;
  next.node.kind = kind;
  next.node.place = at(mark);
  next.anchor = anchor;
  stack_.push_back(std::move(next));
}

void TreeBuilder::close() {
  Open done = std::move(stack_.back());
  stack_.pop_back();
  num_nodes_ -= 1;  // add() counts it again
  add(std::move(done.node), done.anchor);
}

void TreeBuilder::add(Node node, YAML::anchor_t anchor) {
  if (was_key_ = wants_key(); was_key_) {
    keep_anchor(node, anchor);
    return add_key(std::move(node));
  }
  count(1, node.place);
  keep_anchor(node, anchor);
  if (stack_.empty()) {
    root_ = std::move(node);
    return;
  }
  Open& parent = stack_.back();
  if (parent.node.is(Node::Kind::map)) {
    NodeKey key = *std::exchange(parent.key, std::nullopt);
    // A value left out is given the place of the next token, lines below.
    if (node.is(Node::Kind::null) && node.place.line != key.place.line) node.place = key.place;
    if (!parent.seen.insert(key.name).second) return;  // reported when the key was read
    parent.node.keys.push_back(std::move(key));
  }
  parent.node.items.push_back(std::move(node));
}

void TreeBuilder::add_key(Node node) {
  count(1, node.place);
  if (stack_.back().seen.contains(node.text)) {
    const std::string parent = path();
    problems_.add(node.place, parent.empty() ? node.text : parent + "." + node.text,
                  "duplicate key");
  }
  stack_.back().key = NodeKey{std::move(node.text), node.place};
}

void TreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  if (++num_aliases_ > YamlLimits::kAliases)
    stop(mark, fmt::format("more than {} aliases", YamlLimits::kAliases));
  const auto found = anchors_.find(anchor);
  if (found == anchors_.end()) stop(mark, "an alias inside the value it names");
  if (wants_key() && !found->second.items.empty())
    stop(mark, "a key must be a plain or quoted text; is a bracket left open?");
  if (wants_key() && found->second.text == "<<") stop(mark, "merge keys << are refused");
  count(count_nodes(found->second) - 1, at(mark));
  Node copy = found->second;
  copy.place = at(mark);
  add(std::move(copy), 0);
}

// Reads the caller's bytes in place.
struct ViewBuffer : std::streambuf {
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

void parse(std::string_view text, TreeBuilder& builder) {
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  YAML::Parser parser(stream);
  while (parser.HandleNextDocument(builder)) {
  }
}

}  // namespace

std::optional<Node> read_yaml(std::string_view text, int source, Problems& problems) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (auto problem = scan_yaml(text)) {
    problem->place.source = source;
    problems.add(problem->place, "", problem->fact);
    return std::nullopt;
  }
  TreeBuilder builder(text, source, problems);
  try {
    parse(text, builder);
  } catch (const Stop& stop) {
    problems.add(stop.place, "", stop.fact);
    return std::nullopt;
  } catch (const YAML::DeepRecursion& error) {
    problems.add({source, error.mark.line + 1, error.mark.column + 1}, "",
                 fmt::format("nested deeper than {} levels", YamlLimits::kDepth));
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    problems.add({source, error.mark.line + 1, error.mark.column + 1}, "", "YAML: " + error.msg);
    return std::nullopt;
  }
  if (auto root = builder.take()) return root;
  return plain_scalar("", {source, 1, 1});
}

}  // namespace wmtp::config
