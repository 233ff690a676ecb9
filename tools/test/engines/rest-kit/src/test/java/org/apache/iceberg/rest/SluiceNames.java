package org.apache.iceberg.rest;

import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Converts the names of the kit to names of Sluice, and back. The kit's namespaces have one level, Sluice's tables are in a layer
 * of a namespace. Sluice's namespaces have at least three characters, without underscores. So the kit's namespace {@code ns_1} is
 * {@code [kit-ns-1]}, and its table {@code ns_1.t} is {@code [kit-ns-1, bronze].t}.
 */
final class SluiceNames {
  private static final String PREFIX = "kit-";
  private static final String LAYER = "bronze";
  private static final String LEVEL_SEPARATOR = "%1F";
  private static final Pattern PATH = Pattern.compile("(.*/namespaces/)([^/]+)(/.+)?");

  private final Set<String> kitNames = new TreeSet<>();

  String path(String path) {
    var parts = PATH.matcher(path);
    if (!parts.matches() || parts.group(2).contains(LEVEL_SEPARATOR)) return path;
    var rest = parts.group(3) == null ? "" : parts.group(3);
    var layer = rest.isEmpty() || rest.equals("/properties") ? "" : LEVEL_SEPARATOR + LAYER;
    return parts.group(1) + named(parts.group(2)) + layer + rest;
  }

  Namespace namespace(Namespace namespace) {
    return namespace.length() == 1 ? Namespace.of(named(namespace.level(0))) : namespace;
  }

  TableIdentifier table(TableIdentifier table) {
    var namespace = table.namespace();
    return namespace.length() == 1
        ? TableIdentifier.of(Namespace.of(named(namespace.level(0)), LAYER), table.name())
        : table;
  }

  Namespace kitNamespace(Namespace namespace) {
    return namespace.isEmpty() ? namespace : Namespace.of(kitNamed(namespace.level(0)));
  }

  TableIdentifier kitTable(TableIdentifier table) {
    return TableIdentifier.of(kitNamespace(table.namespace()), table.name());
  }

  String kitMessage(String message) {
    var text = message;
    for (var name : kitNames)
      text = text.replace(named(name) + "." + LAYER, name).replace(named(name), name);
    return text;
  }

  /** Namespaces of Sluice that the kit named. */
  Set<String> created() {
    return kitNames.stream().map(this::named).collect(Collectors.toSet());
  }

  private String named(String kitName) {
    kitNames.add(kitName);
    return PREFIX + kitName.replace('_', '-');
  }

  private String kitNamed(String name) {
    return kitNames.stream().filter(kitName -> named(kitName).equals(name)).findFirst().orElse(name);
  }
}
