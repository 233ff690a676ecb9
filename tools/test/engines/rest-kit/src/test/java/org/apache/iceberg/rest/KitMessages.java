package org.apache.iceberg.rest;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * The kit also compares the texts of errors with those of Apache's own server. The specification names only their types and codes,
 * which stay as they are. The texts of Sluice become the ones that the kit knows.
 */
final class KitMessages {
  private static final Map<Pattern, String> TEXTS = new LinkedHashMap<>();

  static {
    text("\\btable(?: or view)? (\\S+) (does not exist|already exists)", "Table $2: $1");
    text("\\bview (\\S+) (does not exist|already exists)", "View $2: $1");
    text("\\bnamespace (\\S+) (does not exist|already exists)", "Namespace $2: $1");
    text("the table already exists", "Requirement failed: table already exists");
    text("the table uuid has changed", "Requirement failed: UUID does not match");
    text("the last field id has changed", "Requirement failed: last assigned field id changed");
    text("the last partition id has changed", "Requirement failed: last assigned partition id changed");
    text("the (current schema|default partition spec|default sort order) has changed", "Requirement failed: $1 changed");
  }

  private KitMessages() {}

  static String of(String message) {
    var text = message;
    for (var each : TEXTS.entrySet()) text = each.getKey().matcher(text).replaceAll(each.getValue());
    return text;
  }

  private static void text(String pattern, String replacement) {
    TEXTS.put(Pattern.compile(pattern), replacement);
  }
}
