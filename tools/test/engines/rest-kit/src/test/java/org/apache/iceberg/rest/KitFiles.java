package org.apache.iceberg.rest;

import java.lang.reflect.Field;
import org.apache.iceberg.DataFile;

/**
 * The data files that the kit appends. Their directory {@code /path/to} belongs to no table, and Sluice accepts only files in the
 * directory of their table. So they move to the table that the catalog returned last. No test reads their content.
 */
final class KitFiles {
  private static final Field PATH = pathField();
  private static DataFile[] files = {};

  private KitFiles() {}

  static void are(DataFile... kitFiles) {
    files = kitFiles;
  }

  static void moveTo(String tableLocation) {
    for (var file : files) {
      var name = file.location().substring(file.location().lastIndexOf('/'));
      try {
        PATH.set(file, tableLocation + "/data" + name);
      } catch (IllegalAccessException error) {
        throw new IllegalStateException(error);
      }
    }
  }

  private static Field pathField() {
    try {
      var field = Class.forName("org.apache.iceberg.BaseFile").getDeclaredField("filePath");
      field.setAccessible(true);
      return field;
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }
}
