package org.apache.iceberg.rest;

import java.util.Map;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** The kit's tests of tables and namespaces. Each test has its own branch of Sluice. */
class SluiceTableTests extends RESTCompatibilityKitCatalogTests {
  private KitBranch branch;

  @BeforeEach
  void openBranch() {
    KitFiles.are(FILE_A, FILE_B, FILE_C);
    branch = new KitBranch();
  }

  @AfterEach
  void closeBranch() throws Exception {
    branch.close();
  }

  @Override
  protected RESTCatalog catalog() {
    return branch.catalog();
  }

  @Override
  protected RESTCatalog initCatalog(String name, Map<String, String> properties) {
    return branch.catalog(name, properties);
  }

  @Override
  protected String baseTableLocation(TableIdentifier table) {
    return branch.location(table);
  }
}
